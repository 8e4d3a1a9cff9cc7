"""The RESP door: MQ.* commands for anything that speaks to Redis."""
