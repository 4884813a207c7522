"""The workload: a multi-threaded DFlash drafter training benchmark and the thread-hazard probes.

Runs inside each probed environment, so it imports only torch, numpy and the standard library.
"""
