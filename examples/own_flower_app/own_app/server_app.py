"""The ServerApp: a private forest, used as one uses FedAvg."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from own_app.table import SCHEMA
from strategies import OneShotForest

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train, say what is guaranteed, and save the forest."""
    settings = context.run_config
    strategy = OneShotForest(SCHEMA, epsilon=float(settings.get("epsilon", 2.0)), trees=int(settings.get("trees", 10)))
    result = strategy.start(grid)
    print(f"guarantee: {result.guarantee}")
    print(f"{result.forest.n_trees} trees, accuracy {result.metrics['accuracy']:.3f}")
    output = Path(str(settings.get("output", "own-forest"))).expanduser()
    output.mkdir(parents=True, exist_ok=True)
    result.save(output)
