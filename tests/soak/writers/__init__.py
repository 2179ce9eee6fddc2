"""Programs that write numbers until their input ends, one for each client.

Arguments: bootstrap servers, topic, number of partitions. Each sends 0, 1, 2, … to partition `number %
partitions`, and prints `acknowledged NUMBER` for each; the value begins with the number.
"""
