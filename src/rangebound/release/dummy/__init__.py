"""Made-up rows of the schema that a plan asks for, from the plan alone."""
