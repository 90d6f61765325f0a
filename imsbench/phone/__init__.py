"""What a phone does (TS 24.229, TS 33.203), as call flows that do no I/O."""
