module render

go 1.21
