"""The subcommands of `python -m envs` by what they are about; each function gives the exit code."""
