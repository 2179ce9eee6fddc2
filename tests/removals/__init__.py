"""`make removals`: what each row of a checklist claims is taken out of the code, and its test has to fail."""
