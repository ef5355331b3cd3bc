"""The control service, by which plans reach a server: who may call it, where it listens, what it allows."""
