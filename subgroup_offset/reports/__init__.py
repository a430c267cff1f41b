"""What a run looks like afterwards: tables and figures from its logs and rollouts."""
