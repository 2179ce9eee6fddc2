"""Spark: queries over topics, pipelines that the broker runs, and the commands `spark` and `load`.

Nothing is imported here: a broker needs no Spark, and the Python processes of Spark's tasks no plugin.
"""
