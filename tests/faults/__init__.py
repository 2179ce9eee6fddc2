"""What a broker has to endure: clocks that jump, disks that hang, signals, and limits of the system."""
