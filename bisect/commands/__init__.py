"""One module a subcommand: `add_arguments(parser)` declares it, `run(args, *, stdout, stderr)` gives the exit code."""
