"""What `tidelog produce` and `tidelog consume` share: encodings, records as JSON, errors, progress."""
