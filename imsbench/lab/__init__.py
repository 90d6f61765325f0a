"""A real core to run against: Kamailio, written down from templates, started, watched and stopped.

``settings`` says everything about one core, ``configs`` writes its files, a *variant* (``variant``) says
where its servers run, ``core`` is the process that a run starts in the place of the reference core.
Versions, limits and defects of the core are in ``docs/lab.md``.
"""
