"""What tests of several packages share: real parts as processes, fakes, waiting on conditions."""
