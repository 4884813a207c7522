"""The standard library's `bisect`, whole, so that `python -m bisect` can be ours.

random, statistics, tempfile and torch import the stdlib module of this name; with the repository root first on
sys.path they get this package, so it runs the stdlib's own source in its namespace and imports nothing of ours.
No submodule may be named like a function of that API (bisect, bisect_left, bisect_right, insort, ...).
"""


def _stdlib_code():  # noqa: ANN202  (typed in __init__.pyi; typing is not imported here)
    import os  # noqa: PLC0415  (must not become a name of this module)

    path = os.path.join(os.path.dirname(os.__file__), "bisect.py")  # noqa: PTH118, PTH120  (pathlib is heavy)
    with open(path, "rb") as source:  # noqa: PTH123
        return compile(source.read(), path, "exec")


exec(_stdlib_code())
del _stdlib_code
