"""The seconds of ops and transfers, and where they come from: measured, fitted, from a file; what they share."""
