"""walkernel placeholder."""
