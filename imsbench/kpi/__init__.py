"""From outcomes to numbers: counts, distributions, definitions, thresholds, the generator's verdict."""
