module tarry/tests/lmstfy_client

go 1.17

require github.com/bitleak/lmstfy v1.0.15
