"""The OpenAPI document has the routes of the application, and the page has them too."""

import json

from rangebound.web.service.application import ANSWERS
from rangebound.web.service.operations import OPERATIONS, document, page


def described(found):
    return {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}


def test_every_operation_is_in_the_document_and_on_the_page_and_has_an_answer(server):
    routes = {(each.method, each.path) for each in OPERATIONS}
    assert len(routes) == len(OPERATIONS)
    status, _, found = server.ask("GET", "/openapi.json")
    assert (status, found) == (200, json.loads(json.dumps(document())))
    assert described(found) == routes
    assert described(document(OPERATIONS[1:])) != routes  # the control
    assert {each.name for each in OPERATIONS} == set(ANSWERS)
    status, headers, text = server.ask("GET", "/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert text.decode() == page()
    for each in OPERATIONS:
        assert f"<code>{each.path}</code>" in text.decode()


def test_every_route_of_the_document_is_one_of_the_server(server):
    token = server.token()
    for method, path in described(document()):
        filled = path.replace("{account}", "people").replace("{id}", "nothing")
        body = {} if method == "POST" else None
        status, _, _ = server.ask(method, filled, token=token, body=body)
        assert status in (200, 400, 403, 404)
        assert status != 404 or "{id}" in path
        assert server.ask(method, filled, body=body)[0] == 401
        assert server.ask("DELETE", filled, token=token)[0] == 405
