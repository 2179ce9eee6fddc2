"""An interceptor that masks fields of JSON values, and headers, for clients that may not see them."""
