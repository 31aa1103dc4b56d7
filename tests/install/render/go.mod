module render

go 1.19
