"""The privacy-loss distribution (PLD): discretization, composition by a Fourier transform, and the accountant."""
