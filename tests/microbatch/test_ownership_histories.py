"""Whatever the order of their steps, attempts deliver each record once; and the histories find planted bugs."""
