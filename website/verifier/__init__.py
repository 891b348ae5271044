"""A page that verifies certificates in a browser, in one file, with no server and no request."""
