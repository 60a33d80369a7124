module example.com/siwatch-example

go 1.19
