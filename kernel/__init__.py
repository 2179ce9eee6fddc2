"""The kernel of tidelog: what embedders and plugin authors import."""
