"""A working plugin for each seam, which `tidelog plugin new` copies under a name of its user's choice.

`Skeleton` in names of classes, "skeleton" in strings and the names of these modules are replaced. Apart from
that a package has what is here, so that all of it is checked and tested like any other module.
"""
