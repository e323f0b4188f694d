"""Models behind one small protocol: the Messages API, scripted models, and the policy around them."""
