-- The bodies of the triggers of a ledger, by their names, and what the catalog says of its tables (`found`).
-- A database that holds a ledger is compared with them to the last letter: a body never changes, another is added.
--- added by 0.2
BEGIN
    IF NEW.seq IS DISTINCT FROM coalesce((SELECT max(seq) FROM {schema}.entries), 0) + 1 THEN
        RAISE EXCEPTION 'entry out of order' USING ERRCODE = '{state}';
    END IF;
    RETURN NEW;
END
--- added
BEGIN
    -- A transaction that notifies cannot be prepared: it would hold the lock of the ledger when its session is gone.
    PERFORM pg_notify('{schema}', '');
    IF NEW.seq IS DISTINCT FROM coalesce((SELECT max(seq) FROM {schema}.entries), 0) + 1 THEN
        RAISE EXCEPTION 'entry out of order' USING ERRCODE = '{state}';
    END IF;
    RETURN NEW;
END
--- by_whom
BEGIN
    IF NEW.kind = 'approve' AND NOT pg_has_role(session_user, '{schema}_service', 'MEMBER') AND EXISTS (
        SELECT FROM {schema}.entries WHERE seq = NEW.ref AND split_part(who, '/', 1) = session_user::text
    ) AND NOT EXISTS (
        SELECT FROM {schema}.entries WHERE kind = 'account' AND account = NEW.account
        AND strpos(what, '"approval": "anyone"') > 0
    ) THEN
        RAISE EXCEPTION 'a request of the same login' USING ERRCODE = '{own}';
    END IF;
    IF NEW.kind = 'move' AND NEW.what = 'postgres' THEN  -- it would say that what is here was made in a file
        RAISE EXCEPTION 'a move to where the ledger is' USING ERRCODE = '{state}';
    END IF;
    IF NEW.kind IN ('publish', 'fail') AND EXISTS (
        SELECT FROM {schema}.entries e WHERE seq = NEW.ref AND split_part(who, '/', 1) <> session_user::text AND coalesce(
            (SELECT what FROM {schema}.entries WHERE kind = 'move' AND seq > e.seq ORDER BY seq LIMIT 1), 'file'
        ) = 'file'
    ) THEN
        RAISE EXCEPTION 'a charge of another login' USING ERRCODE = '{another}';
    END IF;
    IF NEW.kind = 'spend' AND EXISTS (
        SELECT FROM {schema}.entries e WHERE request = NEW.request AND kind = 'request' AND account = NEW.account
        AND split_part(who, '/', 1) <> session_user::text AND coalesce(
            (SELECT what FROM {schema}.entries WHERE kind = 'move' AND seq > e.seq ORDER BY seq LIMIT 1), 'file'
        ) = 'file'
    ) THEN
        RAISE EXCEPTION 'a request of another login' USING ERRCODE = '{another}';
    END IF;
    RETURN NEW;
END
--- stored
BEGIN
    IF NOT EXISTS (
        SELECT FROM {schema}.entries
        WHERE seq = NEW.seq AND seq = (SELECT max(seq) FROM {schema}.entries) AND digest = sha256(NEW.bytes)
    ) THEN
        RAISE EXCEPTION 'bytes of no entry' USING ERRCODE = '{state}';
    END IF;
    RETURN NEW;
END
--- kept
BEGIN
    RAISE EXCEPTION 'a ledger is never changed' USING ERRCODE = '{state}';
END
--- found
SELECT c.relname, c.relkind, c.relpersistence,
    (SELECT array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
        || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END || a.attgenerated::text
        || a.attidentity::text ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
    (SELECT array_agg(pg_get_triggerdef(t.oid) || t.tgenabled::text || ' ' || p.prosrc ORDER BY t.tgname)
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = c.oid AND NOT t.tgisinternal),
    (SELECT array_agg(pg_get_indexdef(i.indexrelid) ORDER BY i.indexrelid::regclass::text)
        FROM pg_index i WHERE i.indrelid = c.oid),
    (SELECT count(*) FROM pg_rewrite r WHERE r.ev_class = c.oid)
        + (SELECT count(*) FROM pg_inherits h WHERE c.oid IN (h.inhrelid, h.inhparent)),
    c.relrowsecurity AND c.relforcerowsecurity,
    (SELECT coalesce(array_agg(p.polname || ' ' || p.polcmd::text || p.polpermissive::text
        || (SELECT coalesce(string_agg(r.rolname, ',' ORDER BY r.rolname), '') FROM pg_roles r
            WHERE r.oid = ANY (p.polroles)) ORDER BY p.polname), '{}') FROM pg_policy p WHERE p.polrelid = c.oid)
FROM pg_class c WHERE c.relnamespace = %s::oid AND c.relkind NOT IN ('i', 't', 'I') ORDER BY c.relname
