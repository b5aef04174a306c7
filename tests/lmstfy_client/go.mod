module tarry/tests/lmstfy_client

go 1.21

require github.com/bitleak/lmstfy v1.0.15
