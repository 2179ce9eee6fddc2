"""What the world does to a broker: clocks that jump, disks that hang, signals, and limits of the system."""
