"""Runs as Slurm jobs: what an administrator configures, one job on its node, the queue, and what becomes of a job."""
