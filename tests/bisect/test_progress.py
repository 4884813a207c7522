"""What a person sees while a run goes on."""

import io
from bisect.progress import Lines


def test_only_the_steps_that_were_asked_for_are_counted():
    """`main 0/40, target-0 120/40` looks like a run that hangs, and like one that went too far."""
    stream = io.StringIO()
    lines = Lines("run-0001", stream)
    for thread, step in (("main", 0), ("drafter-0", 3), ("target-0", 9)):
        lines({"phase": "training", "thread": thread, "step": step, "steps": 40})
    lines({"phase": "saving", "thread": "drafter-0", "step": 37, "steps": 40})
    lines({"phase": "completed", "thread": "drafter-0", "step": 37, "steps": 40})

    told = stream.getvalue().splitlines()

    assert told == ["run-0001: training", "run-0001: saving; steps drafter-0 37/40", "run-0001: completed"]
