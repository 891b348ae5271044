"""Sums of clipped per-example gradients: any module by torch.func, common layers by one backward pass."""
