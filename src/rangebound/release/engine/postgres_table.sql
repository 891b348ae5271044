SELECT c.oid, n.nspname, c.relkind, pg_catalog.row_security_active(c.oid)
FROM unnest(%(schemas)s::pg_catalog.text[]) WITH ORDINALITY AS path(schema, place)
JOIN pg_catalog.pg_namespace n ON n.nspname = path.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = %(name)s
ORDER BY path.place LIMIT 1
