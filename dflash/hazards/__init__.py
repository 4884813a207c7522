"""Thread-safety holes of the torch in this environment, each shown by a forced interleaving.

A probe never waits for luck: the thread that does the dangerous thing stops at a gate inside it, the other
thread looks, the gate opens. Each probe runs in a process of its own, so that a stuck flag, a broken patcher or a
crash cannot falsify the next answer. Everything runs on the CPU: the state that leaks is Python state of the
process. Probes import what they need inside, so that a build that has renamed one private name loses one answer.
"""
