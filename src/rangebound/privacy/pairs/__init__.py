"""What two laws of a mechanism leak: a file a form, in floats and in ball arithmetic."""
