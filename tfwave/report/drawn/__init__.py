"""Pictures of what was decided and measured, by matplotlib, which nothing else here needs."""
