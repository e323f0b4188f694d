"""The only place that builds everything; `build` assembles, each other module makes its part."""
