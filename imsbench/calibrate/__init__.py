"""Calibration: known truths through the whole chain, and what the measurement made of them.

Each case injects something known into the reference core, the HSS or the PCRF, runs a load and
compares what the result says with what was injected:

* counts must agree to the one: as many attempts fail, or are delayed, as the process struck;
* times: some attempts of a run are delayed by more than the others, and what those others took, with
  the difference added, is the truth: whatever the machine does in that minute it does to both;
* a target that stood still must be seen in the times from due, as a user would have felt it.

truth     what should have been measured, by arithmetic
row       one truth beside its measurement
cases     the loads and their faults
judge     which rows a case's result gives
table     all of it as Markdown
"""
