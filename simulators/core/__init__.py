"""The reference IMS core: P-CSCF, I-CSCF and S-CSCF in one process, for demos, tests and calibration.

Correct, small, instrumentable; its speed is not what anybody measures. The CSCFs speak to each other
by function calls; to phones SIP over TCP inside IPsec (TS 24.229, TS 33.203), to the HSS Cx (TS 29.228).
``null`` is the other target: no Cx, no checks, the floor against which the generator is measured.
"""
