"""What a release becomes: table, consistency, explanation, report, certificate."""
