"""The plan of a release: fields, kinds of questions, TOML, schema, groupings."""
