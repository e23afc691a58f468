"""Lightning training of location encoders with geo-bias regularisation."""
