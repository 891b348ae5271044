"""The least error that privacy allows: the best table for one number, and a proof that nothing is better."""
