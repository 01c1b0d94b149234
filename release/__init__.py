"""Everything that a version publishes: wheel and sdist, images, charts, bills of materials, checksums, notes.

``make release VERSION=… REGISTRY=…`` makes the files from the last commit, and needs buildah, helm, syft
and git; ``make publish`` sends images and charts to the registry. Decision 091 has the reasons.
"""
