"""What two laws of a mechanism leak: one file per form, in floats and in ball arithmetic."""
