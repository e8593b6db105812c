"""What a run can be expected to do, by public facts and on made-up rows: asked before any budget is spent."""
