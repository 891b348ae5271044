WITH RECURSIVE base(attnum, oid) AS (
    SELECT attnum, atttypid FROM pg_catalog.pg_attribute WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT b.attnum, t.typbasetype FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid WHERE t.typtype = 'd'
)
SELECT a.attname, t.typname, t.typtype, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attgenerated = 'v'
FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid AND t.typtype <> 'd'
JOIN pg_catalog.pg_attribute a ON a.attrelid = %(table)s AND a.attnum = b.attnum
WHERE pg_catalog.has_column_privilege(%(table)s::pg_catalog.oid, a.attnum, 'SELECT')
ORDER BY a.attnum
