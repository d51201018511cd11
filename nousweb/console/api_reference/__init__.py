"""The reference of the API as pages: made from the OpenAPI document, under the console's own policy."""
