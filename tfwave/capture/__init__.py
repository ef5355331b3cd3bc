"""What is live, on its way to a bundle: sessions, functions, the steps that workers traced, waves."""
