"""The web: the service that publishes for a team, and the explorer of one person."""
