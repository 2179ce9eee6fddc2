"""Groups of the consumer protocol (KIP-848): the broker decides who owns what, members follow one by one."""
