"""What the papers published: mechanisms with their true guarantee, and limits of additive noise."""
